"""The page at `/` for everybody: by the keyboard alone, with a screen reader, on a phone, in the dark."""

from typing import Any

import pytest

from duplex_trio.testing.browser import Page
from duplex_trio.testing.server_process import ServedPort
from duplex_trio.testing.talk_visitor import PHONE, Visitor, visit_talk

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

CONTROLS = {
    "button",
    "textbox",
    "searchbox",
    "combobox",
    "spinbutton",
    "slider",
    "link",
    "DisclosureTriangle",
}
TOUCH_PX = 40
LONG = "one two three four five six seven eight nine ten"

FAINT = """(() => {
  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const rgba = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const over = (top, below) => below.map((part, i) => i < 3 ? (top[i] * top[3] + part * (255 - top[3])) / 255 : 255);
  const behind = (element) => {
    const layers = [];
    for (let one = element; one; one = one.parentElement) layers.unshift(rgba(getComputedStyle(one).backgroundColor));
    return layers.reduce((below, top) => over(top, below), [255, 255, 255, 255]);
  };
  const light = (colour) => {
    const linear = colour.slice(0, 3).map((part) => part / 255).map(
      (part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  };
  const found = [];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    const seen = element.checkVisibility({ opacityProperty: true, visibilityProperty: true });
    if (!seen || !texts.currentNode.data.trim()) continue;
    if (element.closest(':disabled, .hidden, option, .skip, noscript')) continue;
    const style = getComputedStyle(element);
    const ground = behind(element);
    const [a, b] = [light(over(rgba(style.color), ground)), light(ground)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    if (ratio < (large ? 3 : 4.5)) found.push([texts.currentNode.data.trim().slice(0, 30), Number(ratio.toFixed(2))]);
  }
  return found;
})()"""
"""Texts whose contrast is below WCAG 2.2's 1.4.3, with it."""


async def names(page: Page) -> list[tuple[str, str]]:
    """Every control that a screen reader meets, by its role and its name."""
    tree = await page.call("Accessibility.getFullAXTree")
    nodes = [node for node in tree["nodes"] if not node["ignored"]]
    found = [(node["role"]["value"], node.get("name", {}).get("value", "")) for node in nodes]
    return [(role, name) for role, name in found if role in CONTROLS]


async def in_use(visitor: Visitor) -> None:
    """Bring the page where everything is shown: an interrupted answer, a wrong setting, a notice, messages."""
    await visitor.write(LONG)
    await visitor.heard("You said:")
    await visitor.page.press("Escape")
    await visitor.page.until("document.querySelector('#turns [data-state=interrupted]')")
    await visitor.choose("threshold", "7")
    await visitor.complaint_at("threshold")
    await visitor.page.run("document.getElementById('log').open = true")


async def test_every_control_has_a_name_and_every_reference_leads_somewhere(visitor: Visitor) -> None:
    await in_use(visitor)
    found = await names(visitor.page)
    assert len(found) > 20
    assert [role for role, name in found if not name.strip()] == []
    broken = await visitor.page.run(
        """(() => {
          const all = [...document.querySelectorAll('[id]')].map((one) => one.id);
          const twice = all.filter((id, place) => all.indexOf(id) !== place);
          const attributes = ['for', 'aria-labelledby', 'aria-describedby'];
          const named = attributes.flatMap((name) => [...document.querySelectorAll(`[${name}]`)]
            .flatMap((one) => one.getAttribute(name).split(' ')));
          return [...twice, ...named.filter((id) => !all.includes(id))];
        })()"""
    )
    assert broken == []
    outline = await visitor.page.run(
        "[...['main', 'h1', 'img:not([alt])'].map((one) => document.querySelectorAll(one).length),"
        " document.documentElement.lang]"
    )
    assert outline == [1, 1, 0, "en"]


@pytest.mark.parametrize("dark", [False, True])
async def test_all_text_stands_out(browser: str, talk_server: ServedPort, dark: bool) -> None:
    async with visit_talk(browser, talk_server.port, dark=dark) as visitor:
        assert await visitor.page.run(FAINT) == []
        await in_use(visitor)
        assert await visitor.page.run(FAINT) == []


async def focused(page: Page) -> str:
    found: str = await page.run("document.activeElement.id || document.activeElement.className")
    return found


async def test_the_keyboard_alone_is_enough(visitor: Visitor) -> None:
    page = visitor.page
    await page.press("Tab")
    assert await focused(page) == "skip"
    assert await page.run("document.activeElement.getBoundingClientRect().top") >= 0  # it shows itself
    order = []
    while "volume" not in order:
        await page.press("Tab")
        order.append(await focused(page))
        assert await page.run(
            "(({ outlineStyle, outlineWidth, borderColor }) => outlineStyle !== 'none' && parseFloat(outlineWidth) > 0"
            " || document.activeElement.id === 'words')(getComputedStyle(document.activeElement))"
        ), order[-1]
    talk, words, settings = order.index("talk"), order.index("words"), order.index("instructions")
    assert talk < words < settings
    await page.run("document.activeElement.blur()")
    await page.press("/", code=191)
    assert await focused(page) == "words"
    await page.type(LONG)
    await page.press("Enter")
    await visitor.heard("You said:")
    await page.press("Escape")
    await page.until("document.querySelector('#turns [data-state=interrupted]')")
    for key in ("M", "Esc", "/"):
        assert key in await visitor.text("keys-hint")


async def test_whole_sentences_are_told_to_screen_readers(visitor: Visitor) -> None:
    told = await visitor.page.run(
        """import('/talk/transcript.js').then(async ({ TranscriptView }) => {
          const make = () => document.createElement('div');
          const news = make();
          const heard = [];
          new MutationObserver(() => heard.push(news.textContent)).observe(news, { childList: true });
          const view = new TranscriptView(
            { scroll: make(), list: make(), older: make(), empty: make(), newest: make(), news });
          const line = (text, ahead, more) => ({ id: '1', who: 'model', state: '', text, ahead, waiting: false,
            whole: false, latencyMs: null, ...more });
          for (const [text, ahead, more] of [['', 'One'], ['', 'One two. Thr'], ['One', ' two. Three fo'],
            ['One two.', ' Three four. '], ['One two. Three', ' four. Five', { whole: true }]]) {
            view.draw([line(text, ahead, more)]);
            await new Promise((resolve) => setTimeout(resolve));
          }
          return heard;
        })"""
    )
    assert told == ["Model: One two.", "Three four.", "Five"]


async def test_only_so_many_turns_are_shown(visitor: Visitor) -> None:
    shown = await visitor.page.run(
        """import('/talk/transcript.js').then(({ TranscriptView }) => {
          const place = (id) => document.getElementById(id);
          const view = new TranscriptView({ scroll: place('scroll'), list: place('turns'), older: place('older'),
            empty: place('empty'), newest: place('newest'), news: place('news') });
          const lines = Array.from({ length: 2000 }, (_, i) => ({ id: `${i}`, who: i % 2 ? 'model' : 'you', state: '',
            text: `turn ${i}`, ahead: '', waiting: false, whole: true, latencyMs: null }));
          view.draw(lines);
          const last = place('turns').lastElementChild;
          view.draw(lines);
          return [place('turns').children.length, last === place('turns').lastElementChild, last.textContent,
            place('older').hidden, place('scroll').scrollTop > 1000];
        })"""
    )
    assert shown[:2] == [200, True]
    assert "turn 1999" in shown[2]
    assert shown[3:] == [False, True]


async def test_a_setting_that_is_refused_comes_into_sight_on_a_phone(
    browser: str, talk_server: ServedPort
) -> None:
    async with visit_talk(browser, talk_server.port, size=PHONE) as visitor:
        await visitor.choose("speed", "9")
        await visitor.write("hello")
        assert "at most 1.5" in await visitor.complaint_at("speed")
        assert await visitor.page.run("document.getElementById('sheet').open")
        assert await visitor.page.run("document.activeElement.id") == "speed"


async def test_a_phone_shows_all_of_it_without_scrolling_sideways(
    browser: str, talk_server: ServedPort
) -> None:
    async with visit_talk(browser, talk_server.port, size=PHONE) as visitor:
        page = visitor.page
        await in_use(visitor)
        assert await page.run("document.documentElement.scrollWidth") == PHONE[0]
        await page.until("document.getElementById('sheet').open")  # for the setting that was refused
        await page.press("Escape")
        await page.until("!document.getElementById('sheet').open")
        small: list[Any] = await page.run(
            f"[...document.querySelectorAll('button, .across')].filter((one) => one.checkVisibility()"
            f" && one.getBoundingClientRect().height < {TOUCH_PX}).map((one) => one.id || one.textContent)"
        )
        assert small == []
        inside = (
            "[...document.querySelectorAll('#talk, #words, #send, #end')].every((one) => {"
            " const { left, right, bottom } = one.getBoundingClientRect();"
            " return left >= 0 && right <= innerWidth && bottom <= innerHeight; })"
        )
        await page.run("scrollTo(0, 0)")
        assert await page.run(inside)
        assert await page.run("document.getElementById('instructions').checkVisibility()") is False
        await page.click("#open-settings")
        assert await page.run("document.getElementById('instructions').checkVisibility()")
        assert await page.run("document.documentElement.scrollWidth") == PHONE[0]
        await page.press("Escape")
        await page.until("!document.getElementById('sheet').open")


async def test_nothing_jumps_while_people_talk(visitor: Visitor) -> None:
    places = (
        "['stage', 'talk', 'scroll', 'composer', 'panel'].map((id) => {"
        " const { x, y, width } = document.getElementById(id).getBoundingClientRect(); return [x, y, width]; })"
    )
    before = await visitor.page.run(places)
    await visitor.write(LONG)
    await visitor.state("thinking", "speaking")
    assert await visitor.page.run(places) == before
    await visitor.heard("You said:")
    assert await visitor.page.run(places) == before
    await visitor.page.press("Escape")
    await visitor.state("listening")
    assert await visitor.page.run(places) == before


async def test_nothing_is_drawn_while_nobody_talks(visitor: Visitor) -> None:
    await visitor.page.run(
        "(() => { const ask = requestAnimationFrame; globalThis.frames_asked = 0;"
        " globalThis.requestAnimationFrame = (act) => { globalThis.frames_asked += 1; return ask(act); }; })()"
    )
    await visitor.page.run("new Promise((resolve) => setTimeout(resolve, 300))")
    assert await visitor.page.run("frames_asked") == 0
    await visitor.write("hello")
    await visitor.heard("hello")
    assert await visitor.page.run("frames_asked") > 0
