"""Results as Markdown, and what of them falls short.

A result is a dictionary: table, name, bar, read_us, floor_us, flops, kv_bytes and cells, {label: {us, max, l2} or
{error}}. Times are microseconds. Ratios are ours by theirs, of times: below 1 we are faster.
"""
import rows

ERROR_RATIO = 1.5  # ours may be so many times the peer's error
NOISE = 1.02  # two plans of ours that differ by less than this count as equal
GROUPS = {
    "decode": ("SDPA", "FlashInfer"),
    "cascade": ("FlashInfer flat", "FlashInfer cascade"),
    "prefill": ("SDPA flash", "SDPA cuDNN", "FlashInfer"),
}
TITLES = {
    "decode": "Decode attention (us)",
    "cascade": "Shared-prefix decode (us)",
    "prefill": "Causal prefill (TFLOP/s)",
}


def group_of(table, label):
    """Which column a label belongs to; None for ours and for what is only listed."""
    if label.startswith("ours"):
        return None
    if table == "cascade":
        return "FlashInfer cascade" if "cascade" in label else "FlashInfer flat"
    return next((group for group in GROUPS[table] if label.startswith(group)), None)


def best(result, group=None):
    """(label, cell) of the fastest of a group, or of all peers; (None, None) where nobody has a figure."""
    timed = [
        (label, cell) for label, cell in result["cells"].items()
        if "us" in cell and group_of(result["table"], label) in ((group,) if group else GROUPS[result["table"]])
    ]
    return min(timed, key=lambda pair: pair[1]["us"], default=(None, None))


def _figure(result, cell):
    """The time or, in prefill, the rate of a cell."""
    if not cell or "us" not in cell:
        return None
    return result["flops"] / cell["us"] / 1e6 if result["table"] == "prefill" else cell["us"]


def _text(figure, digits=1):
    return "-" if figure is None else f"{figure:.{digits}f}"


def _ratio(above, below):
    return None if above is None or not below else above / below


def judge(result):
    """Facts of one row: ours, the peers' best, their ratio, whether the bar is met, the share of the ceiling."""
    ours = result["cells"].get("ours", {})
    label, peer = best(result)
    figure = _figure(result, ours)
    rate = result["table"] == "prefill"
    met = None if figure is None else (figure >= result["bar"] if rate else figure <= result["bar"])
    share = None
    if figure is not None:
        share = _ratio(figure, result["product_tflops"]) if rate else _ratio(result["floor_us"], figure)
    return {
        "ours": figure, "peer": label, "met": met, "share": share,
        "ratio": _ratio(ours.get("us"), peer.get("us")) if peer else None,
    }


def errors(result):
    """(ours, the best peer's, ratio) for the largest absolute error, then for the relative L2 error."""
    ours = result["cells"].get("ours", {})
    found = []
    for kind in ("max", "l2"):
        peers = [cell[kind] for label, cell in result["cells"].items()
                 if kind in cell and group_of(result["table"], label)]
        peer = min(peers, default=None)
        found.append((ours.get(kind), peer, _ratio(ours.get(kind), peer)))
    return found


def shortfalls(result):
    """What is wrong with a row, in words."""
    verdict = judge(result)
    ours = result["cells"].get("ours", {})
    name = f"{result['table']} {result['name']}"
    if verdict["ours"] is None:
        return [f"{name}: no figure of ours ({ours.get('error', 'not run')})"]
    found = []
    if not verdict["met"]:
        found.append(f"{name}: {verdict['ours']:.1f} misses the bar of {result['bar']:g}")
    if verdict["ratio"] is not None and verdict["ratio"] > 1:
        found.append(f"{name}: {verdict['peer']} is faster, ours takes {verdict['ratio']:.2f}x its time")
    flat = result["cells"].get("ours flat", {})
    if "us" in flat and flat["us"] * NOISE < ours["us"]:
        found.append(f"{name}: not sharing is faster, {flat['us']:.1f} against {ours['us']:.1f}")
    for kind, (mine, theirs, ratio) in zip(("largest", "relative"), errors(result)):
        if ratio is not None and ratio > ERROR_RATIO:
            found.append(f"{name}: {kind} error {mine:.2e} is {ratio:.1f}x the best peer's {theirs:.2e}")
        elif mine is not None and mine == float("inf"):
            found.append(f"{name}: the result is not finite")
    return found


def line(result):
    """One row for the terminal."""
    verdict = judge(result)
    groups = GROUPS[result["table"]]
    peers = "  ".join(f"{group} {_text(_figure(result, best(result, group)[1])):>7}" for group in groups)
    mark = {None: "?", True: "ok", False: "MISS"}[verdict["met"]]
    return (f"{result['name']:36} ours {_text(verdict['ours']):>7}  {peers}  bar {result['bar']:g} {mark}  "
            f"ratio {_text(verdict['ratio'], 2)}  share {_text(verdict['share'], 2)}  "
            f"l2 {_text(errors(result)[1][2], 2)}x")


def _row(cells):
    return "| " + " | ".join(cells) + " |"


def _speed(table, results):
    ceiling = "product, TFLOP/s" if table == "prefill" else "plain read"
    head = ["shape", "MB", "ours"] + (["ours flat"] if table == "cascade" else []) + list(GROUPS[table])
    head += ["bar", "met", "ours / best peer (time)", ceiling] + (["floor"] if table == "cascade" else []) + ["share"]
    lines = [f"## {TITLES[table]}", "", _row(head), _row(["---"] * len(head))]
    for result in results:
        verdict = judge(result)
        row = [result["name"], f"{result['kv_bytes'] / 1e6:.0f}", _text(verdict["ours"])]
        if table == "cascade":
            row.append(_text(_figure(result, result["cells"].get("ours flat"))))
        for group in GROUPS[table]:
            label, cell = best(result, group)
            short = (label or "").removeprefix("SDPA ").removeprefix("FlashInfer ")
            row.append(_text(_figure(result, cell)) + (f" ({short})" if label and label != group else ""))
        bound = result.get("product_tflops") if table == "prefill" else result["read_us"]
        row += [("≥ " if table == "prefill" else "≤ ") + f"{result['bar']:g}",
                {None: "-", True: "yes", False: "**no**"}[verdict["met"]], _text(verdict["ratio"], 2), _text(bound)]
        if table == "cascade":
            row.append(_text(result["floor_us"]))
        lines.append(_row(row + [_text(verdict["share"], 2)]))
    return lines + [""]


def _masking(results):
    head = ["shape", "who", "causal, us", "same work unmasked, us", "ratio", f"≤ {rows.MASKING_BAR}"]
    note = ("Prefill: as many query rows against the first half of the keys, without a mask. Decode: one row, where "
            "the mask hides nothing.")
    lines = ["## Causal masking against the same work unmasked", "", note, "", _row(head), _row(["---"] * len(head))]
    for result in results:
        for who, causal, plain in result["pairs"]:
            ratio = _ratio(causal, plain)
            met = "-" if ratio is None else "yes" if ratio <= rows.MASKING_BAR else "**no**"
            lines.append(_row([result["name"], who, _text(causal), _text(plain), _text(ratio, 3), met]))
    return lines + [""]


def _accuracy(results):
    head = ["row", "ours: largest, relative", "best peer: largest, relative", "ratios", f"≤ {ERROR_RATIO}"]
    lines = ["## Errors against float64", "", "Of the peers, the smallest error of any that ran.", "", _row(head),
             _row(["---"] * len(head))]
    for result in results:
        both = errors(result)
        pair = ["-" if value is None else f"{value:.2e}" for found in both for value in found[:2]]
        met = "-" if any(found[2] is None for found in both) else (
            "yes" if all(found[2] <= ERROR_RATIO for found in both) else "**no**")
        lines.append(_row([f"{result['table']} {result['name']}", f"{pair[0]}, {pair[2]}", f"{pair[1]}, {pair[3]}",
                           ", ".join(_text(found[2], 2) for found in both), met]))
    return lines + [""]


def _everything(results):
    lines = ["## Every figure", "", _row(["row", "who", "us", "largest error", "relative error"]), _row(["---"] * 5)]
    for result in results:
        for label, cell in result["cells"].items():
            figures = ([f"{cell['us']:.2f}", f"{cell['max']:.2e}", f"{cell['l2']:.2e}"] if "us" in cell
                       else [cell["error"].replace("|", "/"), "", ""])
            lines.append(_row([f"{result['table']} {result['name']}", label] + figures))
    return lines + [""]


def masking_pairs(results):
    """What the decode rows say about masking, in the form of the masking table."""
    found = []
    for result in results:
        causal, plain = result["cells"].get("ours", {}), result["cells"].get("ours, no mask", {})
        if "us" in causal and "us" in plain:
            found.append({"name": result["name"], "pairs": [("ours", causal["us"], plain["us"])]})
    return found


def masking_shortfalls(results):
    return [f"masking {result['name']}: {who} takes {causal / plain:.3f}x the unmasked time"
            for result in results for who, causal, plain in result["pairs"]
            if who == "ours" and causal and plain and causal / plain > rows.MASKING_BAR]


def all_shortfalls(results, masking):
    """What is wrong with any row of any table, in words."""
    return [text for result in results for text in shortfalls(result)] + masking_shortfalls(masking)


def markdown(facts, results, masking):
    """The whole report. facts: {what: value}; results: of the three tables; masking: of the masking table."""
    by_table = {table: [result for result in results if result["table"] == table] for table in TITLES}
    masking = masking + masking_pairs(by_table["decode"])
    wrong = all_shortfalls(results, masking)
    lines = ["# Attention beside its peers", ""] + [f"- {what}: {value}" for what, value in facts.items()] + [""]
    lines += ["## Short of the mark", ""] + ([f"- {text}" for text in wrong] or ["Nothing."]) + [""]
    for table, found in by_table.items():
        if found:
            lines += _speed(table, found)
    if masking:
        lines += _masking(masking)
    if results:
        lines += _accuracy(results) + _everything(results)
    return "\n".join(lines)
