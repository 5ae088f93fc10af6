"""Nanolith's attention beside Transformers' own, on a model folder and on the shape of Llama 3.1 8B.

    python compare.py --model ../model [--device cpu]     100 greedy tokens a prompt, in float32 and bfloat16
    python compare.py --shape-8b                          random weights, on a GPU: logits, and the decode step's time

The exit status is 0 only where everything agrees.
"""

import argparse
import sys
import time
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

import nanolith_attention

PROMPTS = ["Once upon a time", "The old man looked at the sea and", "def main():", "1 + 1 ="]


def greedy(model, tokens, count):
    options = dict(attention_mask=torch.ones_like(tokens), max_new_tokens=count, min_new_tokens=count, do_sample=False,
                   pad_token_id=model.config.eos_token_id)
    model.set_attn_implementation("sdpa")
    stock = model.generate(tokens, **options)
    model.set_attn_implementation("nanolith")
    cache = nanolith_attention.PagedCache(model.config, len(tokens), tokens.shape[1] + count, model.device, model.dtype)
    ours = model.generate(tokens, past_key_values=cache, **options)
    return stock[:, tokens.shape[1]:], ours[:, tokens.shape[1]:]


@torch.no_grad()
def is_tie(model, tokens, stock, ours):
    """Whether the two tokens' logits after `tokens` are within a step of the model's dtype, by its own attention."""
    model.set_attn_implementation("sdpa")
    logits = model(tokens[None]).logits[0, -1]
    return abs(logits[stock] - logits[ours]).item() <= torch.finfo(logits.dtype).eps * logits[stock].abs().item()


def compare_model(folder, device, count):
    """Greedy tokens of each prompt alone, and of a batch; returns whether all are the same, but for what comes after a
    tie: where the rounding of logits makes two tokens alike, either is right, and the text goes on another way."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    prompts = [tokenizer(text, return_tensors="pt").input_ids.to(device) for text in PROMPTS]
    shortest = min(tokens.shape[1] for tokens in prompts)
    prompts.append(torch.cat([tokens[:, :shortest] for tokens in prompts]))
    same_everywhere = True
    for dtype in (torch.float32, torch.bfloat16):
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).to(device).eval()
        same = total = ties = differ = 0
        for tokens in prompts:
            for prompt, stock, ours in zip(tokens, *greedy(model, tokens, count)):
                alike = int((stock == ours).cumprod(dim=0).sum())
                total += count
                same += alike
                if alike < count:
                    tie = is_tie(model, torch.cat([prompt, stock[:alike]]), stock[alike], ours[alike])
                    ties += tie
                    differ += not tie
        print(f"{device} {dtype}: {same} of {total} greedy tokens identical; {ties} texts go another way at a tie, "
              f"{differ} elsewhere", flush=True)
        same_everywhere = same_everywhere and differ == 0
    return same_everywhere


@torch.no_grad()
def logits_of(model, implementation, tokens, prompt_length):
    """Logits of a prefill and of one-token steps after it, over one cache."""
    model.set_attn_implementation(implementation)
    cache = None
    if implementation == "nanolith":
        cache = nanolith_attention.PagedCache(model.config, len(tokens), tokens.shape[1], model.device, model.dtype)
    parts = []
    for start, end in [(0, prompt_length)] + [(i, i + 1) for i in range(prompt_length, tokens.shape[1])]:
        out = model(tokens[:, start:end], past_key_values=cache, use_cache=True)
        cache = out.past_key_values
        parts.append(out.logits.float())
    return torch.cat(parts, dim=1)


@torch.no_grad()
def decode_step_ms(model, context, steps=50):
    """The time of one decode step of a conversation of `context` tokens, as a CUDA graph and launched by PyTorch."""
    model.set_attn_implementation("nanolith")
    device = model.device
    tokens = torch.randint(model.config.vocab_size, (1, context), device=device)
    cache = nanolith_attention.PagedCache(model.config, 1, context + 4 * steps, device, model.dtype)
    model(tokens, past_key_values=cache, use_cache=True, logits_to_keep=1)
    token = torch.zeros(1, 1, dtype=torch.long, device=device)
    position = torch.zeros(1, 1, dtype=torch.long, device=device)

    def step():
        logits = model(token, position_ids=position, past_key_values=cache, use_cache=True).logits
        token.copy_(logits[:, -1:].argmax(-1))
        position.add_(1)

    def timed(run):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(steps):
            run()
        torch.cuda.synchronize()
        return (time.perf_counter() - begin) / steps * 1000

    position.fill_(cache.length)
    for _ in range(3):
        step()
    eager = timed(step)
    graph = torch.cuda.CUDAGraph()
    cache.begin_step(1)
    with torch.cuda.graph(graph):
        step()
    graph.replay()

    def replay():
        cache.begin_step(1)
        graph.replay()

    return timed(replay), eager


@torch.no_grad()
def compare_8b(device):
    """Logits against float32, and the decode step; returns whether our error is like the stock implementation's."""
    config = LlamaConfig(hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32,
                         num_key_value_heads=8, head_dim=128, vocab_size=128256, max_position_embeddings=131072,
                         rms_norm_eps=1e-5, rope_theta=500000.0, tie_word_embeddings=False)
    torch.manual_seed(0)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device(device):
        model = LlamaForCausalLM(config).eval()
    torch.set_default_dtype(torch.float32)
    for context in (1024, 8192):
        graph, eager = decode_step_ms(model, context)
        print(f"decode step at {context} tokens: {graph:.2f} ms as a CUDA graph, {eager:.2f} ms without", flush=True)

    tokens = torch.randint(config.vocab_size, (1, 272), device=device)
    stock, ours = (logits_of(model, implementation, tokens, 256) for implementation in ("sdpa", "nanolith"))
    model.float()
    exact = logits_of(model, "sdpa", tokens, 256)
    stock_error, our_error = ((logits - exact).abs() for logits in (stock, ours))
    print(f"logits of {exact.abs().max():.3f} at most; against float32 the largest and mean error are\n"
          f"  {stock_error.max():.5f} and {stock_error.mean():.6f} of the stock implementation in bfloat16\n"
          f"  {our_error.max():.5f} and {our_error.mean():.6f} of Nanolith's")
    return bool(our_error.mean() <= 1.05 * stock_error.mean() and our_error.max() <= 1.5 * stock_error.max())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, help="a model folder")
    parser.add_argument("--shape-8b", action="store_true", help="the shape of Llama 3.1 8B with random weights")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--tokens", type=int, default=100, help="greedy tokens a prompt (default 100)")
    arguments = parser.parse_args()
    if arguments.model is None and not arguments.shape_8b:
        parser.error("give --model, --shape-8b or both")
    good = True
    if arguments.model is not None:
        good = compare_model(arguments.model, arguments.device, arguments.tokens) and good
    if arguments.shape_8b:
        good = compare_8b(arguments.device) and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
