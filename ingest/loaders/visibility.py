"""What of a web page a reader came for: not scripts, site furniture or hidden text.

In: elements of a parsed page. Out: whether one is left out, and why. Must not: leave out text without a reason to
count. Hidden text is a known way to slip instructions to a language model, which is why it is named apart.
"""

import re
from collections import Counter
from itertools import islice

from lxml import etree

_SILENT = frozenset(
    [
        "script",
        "style",
        "noscript",
        "template",
        "head",
        "link",
        "meta",
        "iframe",
        "object",
        "embed",
        "canvas",
        "svg",
        "audio",
        "video",
    ]
)
_COUNTED = {"script": "scripts", "style": "style sheets", "noscript": "noscript blocks", "iframe": "frames"}
_FURNITURE = {
    "nav": "navigation blocks",
    "footer": "page footers",
    "select": "form controls",
    "button": "form controls",
}
_FURNITURE_ROLES = {
    "navigation": "navigation blocks",
    "menu": "navigation blocks",
    "menubar": "navigation blocks",
    "search": "form controls",
    "contentinfo": "page footers",
}
_HIDING_STYLE = re.compile(
    r"display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse)|font-size\s*:\s*0(?![.\d])|opacity\s*:\s*0(?![.\d])", re.I
)
_COLOUR = re.compile(r"(?<![-\w])(color|background(?:-color)?)\s*:\s*([^;!]+)", re.I)
_WHITE = frozenset({"white", "#fff", "#ffffff", "rgb(255,255,255)"})
_MENU_NAMES = frozenset(
    [
        "nav",
        "navbar",
        "navbox",
        "navigation",
        "menu",
        "submenu",
        "dropdown",
        "breadcrumb",
        "breadcrumbs",
        "catlinks",
        "pagination",
        "pager",
        "toc",
    ]
)
_WORDS = re.compile(r"[a-z]+")
HIDDEN = "hidden blocks"
_MAIN_SHARE = 0.5
# Pages nest up to 2,048 elements deep; what looks at all around each of them would take minutes for one made so.
_MENU_PIECES = 2_000  # of text; what has more is no menu
_ANCESTORS = 64


def left_out(element: etree._Element) -> str | None:
    """None for content; else what it counts as (empty for what nobody would miss, such as `<link>`)."""
    tag = element.tag
    if not isinstance(tag, str):
        return ""
    if tag in _SILENT:
        return _COUNTED.get(tag, "")
    if _is_hidden(element):
        return HIDDEN
    if tag in _FURNITURE:
        return None if tag == "footer" and _inside_quote(element) else _FURNITURE[tag]
    by_role = _FURNITURE_ROLES.get(element.get("role", "").lower())
    return by_role or ("navigation blocks" if _is_menu(element) else None)


def _is_menu(element: etree._Element) -> bool:
    """A block that is named like a menu and made of links. The name alone is no proof: dishes stand in menus too."""
    if element.tag not in {"div", "ul", "ol", "aside", "table", "section"}:
        return False
    names = _WORDS.findall(f"{element.get('class', '')} {element.get('id', '')}".lower())
    if _MENU_NAMES.isdisjoint(names):
        return False
    pieces = list(islice(element.itertext(), _MENU_PIECES + 1))
    if len(pieces) > _MENU_PIECES:
        return False
    everything = len("".join("".join(pieces).split()))
    links = sum(len("".join("".join(link.itertext()).split())) for link in element.iter("a"))
    return links > 0.7 * everything


def _is_hidden(element: etree._Element) -> bool:
    if element.get("hidden") is not None or element.get("aria-hidden", "").lower() == "true":
        return True
    if element.tag == "input" or (style := element.get("style")) is None:
        return False
    if _HIDING_STYLE.search(style):
        return True
    colours = {name.lower().partition("-")[0]: _colour(value) for name, value in _COLOUR.findall(style)}
    # White text with no background of its own stands on the page's, which is white unless a style sheet says otherwise.
    return colours.get("color") is not None and (
        colours["color"] == colours.get("background", "white" if _on_plain_page(element) else None)
    )


def _colour(value: str) -> str:
    plain = "".join(value.lower().split())
    return "white" if plain in _WHITE else plain


def _on_plain_page(element: etree._Element) -> bool:
    """Whether nothing in the page itself colours the ground that the element stands on."""
    return not any(
        "background" in ancestor.get("style", "").lower() or ancestor.get("bgcolor") or ancestor.get("class")
        for ancestor in islice(element.iterancestors(), _ANCESTORS)
    )


def _inside_quote(element: etree._Element) -> bool:
    return any(ancestor.tag == "blockquote" for ancestor in islice(element.iterancestors(), _ANCESTORS))


def content_root(root: etree._Element, omitted: Counter[str]) -> etree._Element:
    """The page's one `<main>` if most of the visible text is in it, else the whole page."""
    mains = _mains(root)
    if not mains or len(_mains(mains[0])) < len(mains):  # those inside the first are part of it
        return root
    titled_outside = root.find(".//h1") is not None and mains[0].find(".//h1") is None
    if not titled_outside and _visible_length(mains[0]) >= _MAIN_SHARE * _visible_length(root):
        omitted["what stands beside the main text"] += 1
        return mains[0]
    return root


def _mains(root: etree._Element) -> list[etree._Element]:
    return [e for e in root.iter("main", "div", "section", "article") if e.tag == "main" or e.get("role") == "main"]


def _visible_length(root: etree._Element) -> int:
    length = 0
    walker = etree.iterwalk(root, events=("start", "end"))
    for event, element in walker:
        if event == "start":
            if left_out(element) is not None:
                walker.skip_subtree()
            else:
                length += len((element.text or "").strip())
        elif element is not root:
            length += len((element.tail or "").strip())
    return length
