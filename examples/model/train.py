"""Trains the example model from nothing: the tokenizer, the weights, and the Hugging Face folder.

    python3 train.py --out folder [--device cuda] [--steps 1336] [--minutes 10] [--seed 1]

The learning rate stays level and falls to zero over the last fifth of the steps. --minutes, or an interrupt (Ctrl-C), begins
that fall early and prints the number of steps that the run will then have: a run with that --steps is the same run again.
"""

import argparse
import pathlib
import random
import signal
import threading
import time
from concurrent import futures

import torch
import torch.nn.functional as F

import batches
import generate
import model as llama
from tokenizer import load_tokenizer, train_tokenizer

# (first step, least and most documents, sequences per step): copying is learned on short prompts first.
CURRICULUM = ((0, (1, 4), 12), (150, (2, 6), 12), (400, (3, 8), 10))
QUESTIONS = 16
OTHER_TOKENS = 0.1
"""The share of the tokens outside answers that are trained on, too."""
COOLDOWN = 0.2


class Muon(torch.optim.Optimizer):
    """Momentum whose update is made nearly orthogonal, for the matrices of the layers (Jordan et al., 2024)."""

    def __init__(self, matrices, threads, lr=0.01, momentum=0.95, weight_decay=0.0):
        self.threads = threads
        by_shape = {}
        for matrix in matrices:
            by_shape.setdefault(tuple(matrix.shape), []).append(matrix)
        groups = [{"params": group} for group in by_shape.values()]
        super().__init__(groups, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    def step(self):
        # One thread per shape of matrix, for the reason given at Gradients.
        list(self.threads.map(self._update, self.param_groups))

    @torch.no_grad()
    def _update(self, group):
        updates = torch.stack([self._momentum(matrix, group["momentum"]) for matrix in group["params"]])
        scale = max(1.0, updates.shape[1] / updates.shape[2]) ** 0.5
        for matrix, update in zip(group["params"], orthogonal(updates)):
            matrix.mul_(1 - group["lr"] * group["weight_decay"]).add_(update, alpha=-group["lr"] * scale)

    def _momentum(self, matrix, momentum):
        average = self.state[matrix].setdefault("average", torch.zeros_like(matrix))
        average.lerp_(matrix.grad, 1 - momentum)
        return matrix.grad.lerp(average, momentum)


def orthogonal(matrices, rounds=5):
    """Pulls the singular values of each matrix towards one, by a quintic Newton-Schulz iteration."""
    x = matrices.bfloat16()
    wide = x.shape[1] <= x.shape[2]
    x = x if wide else x.mT
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(rounds):
        square = x @ x.mT
        x = 3.4445 * x + (-4.7750 * square + 2.0315 * square @ square) @ x
    return (x if wide else x.mT).to(matrices.dtype)


def optimizers_for(model, threads):
    matrices = [weight for name, weight in model.named_parameters() if weight.dim() == 2 and "embed" not in name]
    others = [weight for name, weight in model.named_parameters() if weight.dim() == 1 or "embed" in name]
    return [Muon(matrices, threads), torch.optim.AdamW(others, lr=6e-3, betas=(0.9, 0.98), weight_decay=0.0)]


def autocast(device):
    return torch.autocast(device, torch.bfloat16)


def loss_of(model, batch, rng, device):
    others = torch.rand(batch.targets.shape, generator=torch.Generator().manual_seed(rng.getrandbits(60))) < OTHER_TOKENS
    with autocast(device):
        states = model(batch.tokens, batch.positions, batch.mask, torch.bfloat16)
        trained = (batch.targets >= 0) & (batch.answers | others.to(device))
        logits = model.logits(states[trained])
    losses = F.cross_entropy(logits, batch.targets[trained], reduction="none")
    return losses.mean(), losses.detach()[batch.answers[trained]].mean()


class Gradients:
    """Computes a step's gradients in several threads, each with its own share of the sequences. On a CPU this scales
    better than threads inside each operation, which would wait for each other hundreds of times in a step."""

    def __init__(self, model, tokenizer, device, workers, threads, seed):
        self.model, self.tokenizer, self.device, self.seed = model, tokenizer, device, seed
        self.weights, self.workers, self.threads = list(model.parameters()), workers, threads

    def step(self, number):
        """Sets the weights' gradients; returns the loss of the answers' tokens and the number of tokens."""
        parts = list(self.threads.map(self._part, [number] * self.workers, range(self.workers)))
        for weight, *gradients in zip(self.weights, *(part[0] for part in parts)):
            weight.grad = sum(gradients[1:], gradients[0]).div_(self.workers)
        return sum(part[1] for part in parts) / len(parts), sum(part[2] for part in parts)

    def _part(self, number, worker):
        _, documents, size = stage(number)
        # Seeded by the step, so that its data depends on the seed and the number only.
        rng = random.Random(f"{self.seed} {number} {worker}")
        count = size // self.workers
        # One number of documents for all, so that little is spent on padding.
        length = rng.randint(*documents)
        sequences = [batches.training_sequence(rng, self.tokenizer, length, QUESTIONS) for _ in range(count)]
        batch = batches.collate(sequences).to(self.device)
        loss, answer_loss = loss_of(self.model, batch, rng, self.device)
        return torch.autograd.grad(loss, self.weights), answer_loss.item(), batch.tokens.numel()


@torch.no_grad()
def exact_match(model, tokenizer, items, device, view, size=50):
    """The share of right answers per kind. Greedy decoding gives the answer if each of its tokens is the likeliest one
    after the tokens before it, so one pass tells."""
    right = {kind: [] for kind in generate.KINDS}
    for start in range(0, len(items), size):
        part = items[start : start + size]
        sequences = [batches.Sequence(tokenizer, item["documents"], view) for item in part]
        for sequence, item in zip(sequences, part):
            sequence.ask(item["question"], item["answer"])
        batch = batches.collate(sequences).to(device)
        with autocast(device):
            best = model.logits(model(batch.tokens, batch.positions, batch.mask, torch.bfloat16)).argmax(-1)
        good = ((best == batch.targets) | ~batch.answers).all(dim=1)
        for item, one in zip(part, good.tolist()):
            right[item["kind"]].append(one)
    return {kind: round(sum(ones) / len(ones), 3) for kind, ones in right.items()}


def stage(step):
    return [row for row in CURRICULUM if row[0] <= step][-1]


def rate(step, steps):
    """The learning rate's factor: a short warm-up, a plateau, and a straight fall to zero."""
    return min(1.0, (step + 1) / 50, (steps - step) / (steps * COOLDOWN))


def train(arguments, device):
    folder = pathlib.Path(arguments.out)
    folder.mkdir(parents=True, exist_ok=True)
    train_tokenizer(folder, arguments.seed)
    tokenizer = load_tokenizer(folder)
    torch.manual_seed(arguments.seed)
    model = llama.Llama(llama.Shape()).to(device)
    torch.set_num_threads(1)
    threads = futures.ThreadPoolExecutor(arguments.workers, initializer=torch.set_num_threads, initargs=(1,))
    optimizers = optimizers_for(model, threads)
    probe = list(generate.items(arguments.seed + 1, 90))
    step, steps, seen, begun = 0, arguments.steps, 0, time.time()
    interrupted = threading.Event()
    signal.signal(signal.SIGINT, lambda *_: interrupted.set())
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["level"] = group["lr"]
    gradients = Gradients(model, tokenizer, device, arguments.workers, threads, arguments.seed)
    while step < steps:
        answer_loss, tokens = gradients.step(step)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = group["level"] * rate(step, steps)
            optimizer.step()
        step += 1
        seen += tokens
        minutes = (time.time() - begun) / 60
        late = interrupted.is_set() or (arguments.minutes and minutes >= arguments.minutes * (1 - COOLDOWN))
        if late and step < steps * (1 - COOLDOWN):
            steps = round(step / (1 - COOLDOWN))
            print(f"cooling down; {steps} steps in all", flush=True)
        if step % 20 == 0:
            print(f"step {step} minutes {minutes:.1f} tokens {seen} answers {answer_loss:.3f}", flush=True)
        if step % arguments.probe == 0 or step == steps:
            llama.save(model, folder)
            for name, view in (("full", batches.FULL), ("independent", batches.ALONE)):
                print(f"step {step} {name}", exact_match(model, tokenizer, probe, device, view), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True)
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--steps", type=int, default=1336)
    parser.add_argument("--minutes", type=float, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2, help="threads, on a CPU; part of what makes a run reproducible")
    parser.add_argument("--probe", type=int, default=250, help="steps between two measurements of the accuracy")
    arguments = parser.parse_args()
    device = arguments.device
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    train(arguments, device)


if __name__ == "__main__":
    main()
