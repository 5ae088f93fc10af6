"""The page in headless Chromium, with the keyboard alone."""

import os
import pathlib

from chromium import page_of
from harness import SYSTEM, Server, read_demo

ALT, SHIFT = 1, 8
TITLES = ["Boso Polm, stays", "Zoba Grorg, stays", "Beso Bralm, stays"]
FOCUS = "document.activeElement.id"


def put_documents(server, titles=TITLES):
    for index, (title, text) in enumerate(zip(titles, read_demo()[0])):
        server.post("/v1/chunks", {"id": f"record-{index + 1}", "title": title, "text": text})


def tab_to(page, element):
    for _ in range(60):
        if page.evaluate(FOCUS) == element:
            return
        page.press("Tab")
    raise AssertionError(f"Tab does not come to {element}")


def ask(page, question):
    """Asks, and waits for the report; gives the answer."""
    before = page.evaluate("document.querySelectorAll('.report').length")
    tab_to(page, "question")
    page.type(question)
    page.press("Enter")
    page.wait_for(f"document.querySelectorAll('.report').length === {before + 1} && !document.querySelector('.busy')")
    return page.evaluate("[...document.querySelectorAll('.assistant > p')].at(-1).textContent")


def tokens(page, kind):
    """The number in the last report, of what was reused or computed."""
    script = f"[...document.querySelectorAll('dt.{kind}')].at(-1).nextSibling.textContent"
    return int(page.evaluate(script).removesuffix(" tokens"))


def test_a_chat_by_keyboard():
    with Server("--page-prompt", SYSTEM, model="records") as server:
        page = page_of()
        put_documents(server)
        page.open(server.url + "/")
        page.wait_for("document.querySelectorAll('#documents li').length === 3")
        assert page.evaluate("document.getElementById('model').textContent") == "records"
        for name in ("record-1", "record-3"):
            tab_to(page, "document-" + name)
            page.press(" ")
        page.wait_for("document.getElementById('chosen').textContent.startsWith('2 ticked')")
        assert ask(page, "Name the key that Beso Bralm got.") == "KR32"
        assert tokens(page, "reused") == 0
        computed = tokens(page, "computed")
        page.evaluate("document.getElementById('new-chat').click()")
        assert ask(page, "Name the place where Boso Polm stayed.") == "Drawick"
        assert tokens(page, "reused") > 50 and tokens(page, "computed") < computed - 50
        # In another order documents are computed behind others.
        tab_to(page, "document-record-3")
        page.press("ArrowUp", ALT)
        page.press("ArrowUp", ALT)
        order = "[...document.querySelectorAll('#documents input')].map((box) => box.id).join()"
        assert page.evaluate(order) == "document-record-3,document-record-1,document-record-2"
        assert page.evaluate(FOCUS) == "document-record-3"
        page.evaluate("document.getElementById('new-chat').click()")
        assert ask(page, "Name the place where Boso Polm stayed.") == "Drawick"
        assert tokens(page, "computed") > 50
        page.open(server.url + "/")  # choice and order are there again
        page.wait_for("document.querySelectorAll('#documents li').length === 3")
        assert (
            page.evaluate(order).startswith("document-record-3")
            and page.evaluate("document.querySelectorAll('.chosen').length") == 2
        )
        assert not page.complaints, page.complaints


def test_documents_are_added_and_removed():
    text = "<b>Lamps</b> & <script>alert(1)</script> hang in halls."
    with Server(model="records") as server:
        page = page_of()
        page.open(server.url + "/")
        page.wait_for("document.getElementById('no-documents').hidden === false")
        page.evaluate("document.getElementById('add').open = true")
        tab_to(page, "add-title")
        page.type("<i>Lamps</i>")
        page.press("Tab")
        page.type(text)
        page.press("Tab")
        page.press("Enter")
        page.wait_for("document.querySelectorAll('#documents li.chosen').length === 1")
        assert page.evaluate("document.querySelector('#documents label span').textContent") == "<i>Lamps</i>"
        page.evaluate("document.querySelector('.moves button:last-child').click()")
        page.wait_for("document.querySelectorAll('#documents li').length === 0")
        assert not page.complaints, page.complaints


def test_answers_are_stopped():
    with Server() as server:
        page = page_of()
        page.open(server.url + "/")
        page.wait_for("document.getElementById('model').textContent === 'chain'")
        page.evaluate("document.getElementById('max-tokens').value = 100000")
        tab_to(page, "question")
        page.type("hi")
        page.press("Enter", SHIFT)
        assert page.evaluate("document.getElementById('question').value") == "hi\n"
        page.press("Enter")
        page.wait_for("document.querySelector('.assistant > p')?.textContent.includes('la li')")
        page.press("Escape")
        page.wait_for("document.getElementById('stop').hidden")
        server.wait_for('nanolith_requests_total{outcome="cancelled"}', lambda count: count == 1)


def test_errors_are_told():
    with Server("--api-key", "secret") as server:
        page = page_of()
        page.open(server.url + "/")
        page.wait_for("!document.getElementById('notice').hidden")
        assert page.evaluate("document.getElementById('settings').open")
        tab_to(page, "key")
        page.type("secret")
        page.press("Tab")
        page.wait_for("document.getElementById('model').textContent === 'chain'")
        page.wait_for("document.getElementById('notice').hidden")


def test_nothing_is_wider_than_the_page():
    folder = os.environ.get("NANOLITH_SCREENSHOTS")
    with Server("--page-prompt", SYSTEM, model="records") as server:
        put_documents(server)
        for width, height in ((1280, 800), (360, 760)):
            for dark in (False, True):
                page = page_of(width, height, dark)
                page.open(server.url + "/")
                page.wait_for("document.querySelectorAll('#documents li').length === 3")
                page.evaluate(
                    "for (const box of document.querySelectorAll('#documents input:not(:checked)')) box.click()"
                )
                assert ask(page, "Name the key that Beso Bralm got.") == "KR32"
                ask(page, "Name the place where Boso Polm stayed.")
                assert page.evaluate("document.documentElement.scrollWidth") <= width
                back = page.evaluate("getComputedStyle(document.body).backgroundColor")
                assert (sum(map(int, back[4:-1].split(","))) < 200) == dark, back
                if folder:
                    page.screenshot(pathlib.Path(folder) / f"page-{width}-{'dark' if dark else 'light'}.png")


def test_text_can_be_read():
    """Contrast of text, as WCAG 2 counts it: 4.5 at least."""
    script = """(() => {
        const light = (color) => {
            const [r, g, b] = color.match(/[0-9.]+/g).map((value) => {
                const part = value / 255;
                return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
            });
            return 0.2126 * r + 0.7152 * g + 0.0722 * b;
        };
        const behind = (element) => {
            for (; element; element = element.parentElement) {
                const color = getComputedStyle(element).backgroundColor;
                if (!color.endsWith(", 0)")) return color;
            }
        };
        const bad = [];
        for (const element of document.querySelectorAll("p, h1, h2, label, button, summary, dt, dd, li, span, kbd")) {
            if (!element.textContent.trim() || element.disabled || element.classList.contains("hidden")) continue;
            const [a, b] = [light(getComputedStyle(element).color), light(behind(element))];
            const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
            if (contrast < 4.5) bad.push(`${element.tagName} ${element.id} ${contrast.toFixed(2)}`);
        }
        return bad.join();
    })()"""
    with Server("--page-prompt", SYSTEM, model="records") as server:
        put_documents(server)
        for dark in (False, True):
            page = page_of(dark=dark)
            page.open(server.url + "/")
            page.wait_for("document.querySelectorAll('#documents li').length === 3")
            ask(page, "Name the key that Beso Bralm got.")
            assert page.evaluate(script) == "", dark
