"""Weights to start the training from, with heads that already look back, match, resolve and copy.

Answers are copied: find the place in a document that is preceded by the same words as the end of the question, and say what
stands there. A transformer finds out by itself that its heads can do this, but late. Here they can from the first step:

- All embeddings share one constant feature. A query and a key made from the constant alone, turned by RoPE, give a score
  that depends on the distance only. The heads of the first layer look 1, 2, 3 and 4 tokens back in this way, and each
  writes what it sees into directions of its own.
- Match heads compare what stands 2, 3 and 4 tokens before the query with what stands before each key, and induction heads
  compare the query's token with the token before each key.
- Resolving heads, one layer later, compare the token before the query with the token before each key, and prefer keys that
  are not far: "in the same place" finds the last place that was stated after "in".
- Comparisons use RoPE's slow pairs, whose angles hardly change over a prompt. What is found is copied.
- All other heads begin with queries close to keys and with outputs that undo the values' projection.

Training is free to change all of it.
"""

import torch

CONSTANT = 4.0  # in units of the other features' deviation
SPREAD = 0.5  # that deviation
QUICK_PAIRS = 8
MIDDLE_PAIRS = (10, 11)
SLOW_PAIR = 13
READ = 48
DISTANCES = (1, 2, 3, 4)
MATCHING_LAYERS = (1, 3, 4)
RESOLVING_LAYER = 2
GAIN = 0.6
NOISE = 0.02
"""Tells the query heads apart that share a key head; they would never differ otherwise."""


@torch.no_grad()
def start(model):
    shape, layers = model.shape, model.model.layers
    model.model.embed_tokens.weight.normal_(std=SPREAD)
    model.model.embed_tokens.weight[:, 0] = CONSTANT * SPREAD
    model.model.norm.weight.fill_(0.04 / SPREAD)  # the head is tied to the embedding: keeps the first scores small
    for layer in layers:
        _copy_alike(layer.self_attn, shape)
    reading = _directions(READ, shape.hidden)
    writing = _directions(READ * len(DISTANCES), shape.hidden).chunk(len(DISTANCES))
    copying = _directions(shape.head_dim, shape.hidden)
    _look_back(layers[0].self_attn, shape, reading, writing)
    for number in MATCHING_LAYERS:
        before = torch.cat(writing[1:])
        _compare(layers[number].self_attn, shape, 0, before, before, 0.16 if number == 1 else 0.2)
        _compare(layers[number].self_attn, shape, 1, reading, writing[0], 0.25)
        _copy(layers[number].self_attn, shape, copying)
    for head in range(shape.kv_heads):
        _compare(layers[RESOLVING_LAYER].self_attn, shape, head, writing[0], writing[0], 0.4, nearby=True)
    _copy(layers[RESOLVING_LAYER].self_attn, shape, copying)
    for layer in layers[1:]:
        layer.self_attn.q_proj.weight.add_(torch.randn_like(layer.self_attn.q_proj.weight), alpha=NOISE)


def _directions(count, hidden):
    """Orthonormal rows that ignore the constant feature."""
    directions = torch.zeros(count, hidden)
    directions[:, 1:] = torch.linalg.qr(torch.randn(hidden - 1, count)).Q.T
    return directions


def _copy_alike(attention, shape):
    group = shape.heads // shape.kv_heads

    def repeat(weight):
        return weight.view(-1, shape.head_dim, shape.hidden).repeat_interleave(group, 0).flatten(0, 1)

    attention.q_proj.weight.copy_(repeat(attention.k_proj.weight))
    attention.o_proj.weight.copy_(2.5 * SPREAD * repeat(attention.v_proj.weight).T)


def _look_back(attention, shape, reading, writing):
    dim, half = shape.head_dim, shape.head_dim // 2
    frequencies = shape.theta ** (-torch.arange(QUICK_PAIRS) / half)
    attention.k_proj.weight.mul_(0.2)
    attention.q_proj.weight.mul_(0.2)
    for head in range(shape.kv_heads):
        key = attention.k_proj.weight[head * dim : (head + 1) * dim]
        key[:, 0] = 0
        key[:QUICK_PAIRS, 0] = 1.6
        attention.v_proj.weight[head * dim : head * dim + READ] = reading
    for head, distance in enumerate(DISTANCES):
        query = attention.q_proj.weight[head * dim : (head + 1) * dim]
        query[:, 0] = 0
        query[:QUICK_PAIRS, 0] = 1.6 * torch.cos(distance * frequencies)
        query[half : half + QUICK_PAIRS, 0] = -1.6 * torch.sin(distance * frequencies)
        attention.o_proj.weight[:, head * dim : head * dim + READ] = 2.5 * SPREAD * writing[head].T


def _copy(attention, shape, copying):
    dim = shape.head_dim
    for head in range(shape.kv_heads):
        attention.v_proj.weight[head * dim : (head + 1) * dim] = copying
    for head in range(shape.heads):
        attention.o_proj.weight[:, head * dim : (head + 1) * dim] = GAIN * SPREAD * copying.T


def _compare(attention, shape, kv_head, of_query, of_key, strength, nearby=False):
    """Makes one key head, and the query heads that share it, compare two readings of the residual stream. The quick pairs
    make it overlook its closest neighbours, most of all the token itself; the middle pairs can make it prefer the near."""
    dim, half, group = shape.head_dim, shape.head_dim // 2, shape.heads // shape.kv_heads
    mixing = torch.zeros(dim, of_key.shape[0])
    for first in (SLOW_PAIR, half + SLOW_PAIR):
        mixing[first : first + half - SLOW_PAIR] = strength * torch.randn(half - SLOW_PAIR, of_key.shape[0])
    distance = torch.zeros(dim)
    distance[: MIDDLE_PAIRS[0]] = 2.6 if nearby else 1.5
    sign = -torch.ones(dim)
    if nearby:
        distance[list(MIDDLE_PAIRS)], sign[list(MIDDLE_PAIRS)] = 2.6, 1.0
    key = attention.k_proj.weight[kv_head * dim : (kv_head + 1) * dim]
    key.copy_(mixing @ of_key)
    key[:, 0] = distance
    for head in range(kv_head * group, (kv_head + 1) * group):
        query = attention.q_proj.weight[head * dim : (head + 1) * dim]
        query.copy_(mixing @ of_query)
        query[:, 0] = sign * distance
