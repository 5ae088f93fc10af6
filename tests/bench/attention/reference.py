"""Attention in float64, and how far a result is from it."""
import torch


def attend(queries, keys, values, visible=None):
    """softmax(q k / sqrt(d)) v in float64.

    queries [rows, heads, d]; keys and values [KV heads, tokens, d]; visible [rows]: how many of the first tokens a row
    sees (all where it is None). Returns [rows, heads, d].
    """
    rows, heads, dim = queries.shape
    kv_heads, tokens, _ = keys.shape
    group = heads // kv_heads
    out = torch.empty(rows, heads, dim, dtype=torch.float64, device=queries.device)
    hidden = None
    if visible is not None:
        hidden = torch.arange(tokens, device=queries.device)[None, :] >= visible[:, None]  # [rows, tokens]
    for head in range(kv_heads):
        q = queries[:, head * group : (head + 1) * group].double()  # [rows, group, d]
        scores = torch.einsum("rgd,td->rgt", q, keys[head].double()) / dim**0.5
        if hidden is not None:
            scores.masked_fill_(hidden[:, None, :], float("-inf"))
        out[:, head * group : (head + 1) * group] = torch.einsum(
            "rgt,td->rgd", torch.softmax(scores, dim=-1), values[head].double()
        )
    return out


def error(result, expected):
    """(largest absolute error, relative L2 error) of a result against float64; both infinite where it isn't finite."""
    difference = result.double() - expected
    if not bool(torch.isfinite(difference).all()):
        return float("inf"), float("inf")
    return difference.abs().max().item(), (difference.norm() / expected.norm()).item()
