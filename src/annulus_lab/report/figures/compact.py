"""Smaller SVG: matplotlib's output without redundant parts, and a page with each style once."""

import hashlib
import re

# Innermost groups without an attribute.
GROUP = re.compile(r"<g>((?:(?!</?g[ >]).)*)</g>")
SHAPES = re.compile(r"<(?:path|use|text|g|rect|image) [^<>]*>")
STYLE = re.compile(r' style="([^"]*)"')


def compact(content: str, name: str, grid: str) -> str:
    """Reduces matplotlib's SVG to a third of its bytes: tenths of a unit, without fonts and unused names or groups.

    The page sets the fonts. Identifiers begin with a digest of the figure's name, so that figures share none. Lines of
    the grid, which have the colour `grid`, end at the axes, so their clipping is removed.
    """
    content = content[content.index("<svg") :]
    content = re.sub(r"<metadata>.*?</metadata>\s*|<!--.*?-->\s*", "", content, flags=re.DOTALL)
    content = re.sub(r' (?:width|height)="[\d.]+pt"', "", content, count=2)
    content = content.replace("xlink:href=", "href=").replace(' xmlns:xlink="http://www.w3.org/1999/xlink"', "")
    used = {word for tag in re.findall(r"<[^>]*>", content) for word in re.findall(r"#([^\")]+)", tag)}
    start = hashlib.sha256(name.encode()).hexdigest()[:5]
    own = {word: f"s{start}-{place}" for place, word in enumerate(sorted(used))}
    content = re.sub(r"<[^>]*>", lambda tag: _tag(tag[0], own), content)
    content = re.sub(rf' clip-path="[^"]*"(?= style="fill: none; stroke: {grid})', "", content)
    content = re.sub(r">\s+<", "><", content)
    while GROUP.search(content):
        content = GROUP.sub(r"\1", content)
    return content


def _tag(tag: str, own: dict[str, str]) -> str:
    tag = " ".join(tag.split())
    tag = re.sub(r"font-family: [^;\"]*; ?", "", tag)
    tag = re.sub(r' transform="rotate\(-0 [^)]*\)"', "", tag)
    tag = re.sub(r' id="([^"]*)"', lambda match: f' id="{own[match[1]]}"' if match[1] in own else "", tag)
    tag = re.sub(r'(url\(#|href="#)([^")]+)', lambda match: match[1] + own.get(match[2], match[2]), tag)
    tag = re.sub(r"-?\d+\.\d{2,}", lambda match: f"{float(match[0]):.1f}".removesuffix(".0"), tag)
    return re.sub(r' d="[^"]*"', lambda path: re.sub(r" ?([MLCQz]) ?", r"\1", path[0]), tag)


def with_classes(page: str) -> str:
    """Replaces each style of the figures by a CSS class; half of their bytes were styles of lines and marks.

    Only tags of SVG change. Text there has no `<`, so the name of a series cannot become a style.
    """
    names: dict[str, str] = {}

    def with_class(tag: re.Match[str]) -> str:
        return STYLE.sub(lambda style: f' class="{names.setdefault(style[1], f"f{len(names)}")}"', tag[0])

    page = SHAPES.sub(with_class, page)
    rules = "".join(f".{name}{{{style}}}" for style, name in names.items())
    return page.replace("</style>", f"{rules}</style>", 1)
