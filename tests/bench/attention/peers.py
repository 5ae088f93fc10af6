"""What a user would pick today, on the same tensors: PyTorch's attention backends and FlashInfer.

Each function returns {label: build}; build() prepares everything that a serving program prepares once, and returns the
call to be timed, whose result is [rows, heads, head_dim] or, for PyTorch, [batch, heads, tokens, head_dim].
"""
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

BACKENDS = {
    "SDPA flash": SDPBackend.FLASH_ATTENTION,
    "SDPA cuDNN": SDPBackend.CUDNN_ATTENTION,
    "SDPA efficient": SDPBackend.EFFICIENT_ATTENTION,
}
WORKSPACE_BYTES = 512 << 20


def sdpa(q, k, v, causal, names=tuple(BACKENDS)):
    """PyTorch's backends. q [batch, heads, rows, d]; k and v [batch, KV heads, tokens, d]."""

    def builder(backend):
        def call():
            with sdpa_kernel(backend):
                return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=q.shape[1] != k.shape[1])

        return lambda: call

    if q.device.type == "cpu":
        return {"SDPA math": builder(SDPBackend.MATH)}
    return {name: builder(BACKENDS[name]) for name in names}


class FlashInfer:
    """FlashInfer's kernels on one stream; they share a workspace, as a model's layers do."""

    def __init__(self, flashinfer):
        self.library = flashinfer
        self._workspace = torch.zeros(WORKSPACE_BYTES, dtype=torch.uint8, device="cuda")
        self._xqa_workspace = torch.zeros(WORKSPACE_BYTES // 4, dtype=torch.uint8, device="cuda")

    def flat_decode(self, q, pages, tables, length, kernels=("cc", "fa2"), graph_modes=(True, False)):
        """Paged decode. q [sequences, heads, d]; pages [pages, 2, KV heads, page size, d]; tables [sequences, pages of
        one], every sequence `length` tokens long. kernels: on CUDA cores (cc), on tensor cores (fa2, fa3).
        graph_modes: planned for replays with other lengths (True), or for these alone ("exact grid")."""
        return {
            f"FlashInfer {kernel} p{pages.shape[3]}{'' if graph else ' exact grid'}": self._decode_builder(
                q, pages, tables, length, kernel, graph
            )
            for kernel in kernels
            for graph in graph_modes
        }

    def _decode_builder(self, q, pages, tables, length, kernel, graph):
        def build():
            sequences, per_sequence = tables.shape
            page_size = pages.shape[3]
            indices = tables.reshape(-1).int()
            indptr = (torch.arange(sequences + 1, device="cuda") * per_sequence).int()
            last = torch.full((sequences,), (length - 1) % page_size + 1, dtype=torch.int32, device="cuda")
            buffers = {}
            if graph:
                buffers = {
                    "paged_kv_indptr_buffer": torch.empty_like(indptr),
                    "paged_kv_indices_buffer": torch.empty_like(indices),
                    "paged_kv_last_page_len_buffer": torch.empty_like(last),
                }
            wrapper = self.library.BatchDecodeWithPagedKVCacheWrapper(
                self._workspace, "HND", use_cuda_graph=graph, use_tensor_cores=kernel != "cc",
                backend="auto" if kernel == "cc" else kernel, **buffers)
            wrapper.plan(indptr, indices, last, q.shape[1], pages.shape[2], q.shape[2], page_size,
                         q_data_type=q.dtype, kv_data_type=pages.dtype)
            return lambda: wrapper.run(q, pages)

        return build

    def xqa_decode(self, q, pages, tables, length):
        """The decode kernel that FlashInfer has from TensorRT-LLM; arguments as flat_decode."""

        def build():
            block_tables = tables.int().contiguous()
            lengths = torch.full((tables.shape[0],), length, dtype=torch.int32, device="cuda")
            out = torch.empty_like(q)
            decode = self.library.decode.xqa_batch_decode_with_kv_cache

            def call():
                decode(q, pages, self._xqa_workspace, block_tables, lengths, length,
                       bmm1_scale=q.shape[2] ** -0.5, bmm2_scale=1.0, out=out, kv_layout="HND")
                return out

            return call

        return {f"FlashInfer xqa p{pages.shape[3]}": build}

    def cascade_decode(self, q, pages, shared, private, page_size):
        """Two levels: the pages `shared` by all sequences, and the pages of each, `private` [sequences, pages]. All
        pages are full. With the backend that FlashInfer picks, and with the other one."""
        sequences = q.shape[0]
        kv_heads = pages.shape[2]
        levels = (
            (torch.tensor([0, sequences]), torch.tensor([0, len(shared)]), shared, torch.tensor([page_size])),
            (torch.arange(sequences + 1), torch.arange(sequences + 1) * private.shape[1], private.reshape(-1),
             torch.full((sequences,), page_size)),
        )
        levels = [tuple(part.int().cuda() for part in level) for level in levels]

        def build_default():
            wrapper = self.library.MultiLevelCascadeAttentionWrapper(2, self._workspace, "HND")
            wrapper.plan(*[list(parts) for parts in zip(*levels)], q.shape[1], kv_heads, q.shape[2], page_size,
                         q_data_type=q.dtype)
            return lambda: wrapper.run(q, pages)

        def build_fa2():
            wrappers = []
            for rows, indptr, indices, last in levels:
                wrapper = self.library.BatchPrefillWithPagedKVCacheWrapper(self._workspace, "HND", backend="fa2")
                wrapper.plan(rows, indptr, indices, last, q.shape[1], kv_heads, q.shape[2], page_size, causal=False,
                             q_data_type=q.dtype)
                wrappers.append(wrapper)

            def call():
                out, lse = wrappers[1].run(q, pages, return_lse=True)
                self.library.merge_state_in_place(out, lse, *wrappers[0].run(q, pages, return_lse=True))
                return out

            return call

        return {"FlashInfer cascade": build_default, "FlashInfer cascade fa2": build_fa2}

    def prefill(self, q, k, v, sequences, causal, backends=("fa3",)):
        """q [rows, heads, d] and k, v [tokens, KV heads, d] of all sequences one after another, each of equal share."""

        def builder(backend):
            def build():
                wrapper = self.library.BatchPrefillWithRaggedKVCacheWrapper(self._workspace, "NHD", backend=backend)
                rows, tokens = (
                    (torch.arange(sequences + 1) * (tensor.shape[0] // sequences)).int().cuda() for tensor in (q, k)
                )
                wrapper.plan(rows, tokens, q.shape[1], k.shape[1], q.shape[2], causal=causal, q_data_type=q.dtype)
                return lambda: wrapper.run(q, k, v)

            return build

        return {f"FlashInfer {backend}": builder(backend) for backend in backends}
