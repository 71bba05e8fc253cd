"""A little SVG, readable on light and dark pages: colours are names, and the file itself says what they are in either."""

import html

# Light, dark. Data colours keep their meaning in all pictures.
COLOURS = {
    "page": ("#ffffff", "#0d1117"),
    "ink": ("#1f2328", "#e6edf3"),
    "quiet": ("#656d76", "#8d96a0"),
    "rule": ("#d0d7de", "#30363d"),
    "blue": ("#0969da", "#4493f8"),
    "green": ("#1a7f37", "#3fb950"),
    "orange": ("#bc4c00", "#f0883e"),
    "purple": ("#8250df", "#ab7df8"),
    "teal": ("#1b7c83", "#39c5cf"),
    "yellow": ("#9a6700", "#d29922"),
}


class Picture:
    """Shapes in pixels, y downwards. `fill` and `stroke` are names of COLOURS."""

    def __init__(self, width, height, title):
        self.width, self.height, self.title = width, height, title
        self.shapes = []

    def add(self, tag, text=None, **attributes):
        spelled = " ".join(f'{name.rstrip("_").replace("_", "-")}="{self._spell(value)}"'
                           for name, value in attributes.items() if value is not None)
        self.shapes.append(f"<{tag} {spelled}/>" if text is None else f"<{tag} {spelled}>{html.escape(text)}</{tag}>")

    @staticmethod
    def _spell(value):
        return f"{value:.1f}".rstrip("0").rstrip(".") if isinstance(value, float) else html.escape(str(value))

    def rect(self, x, y, width, height, fill, opacity=1.0, stroke=None):
        self.add("rect", x=float(x), y=float(y), width=float(width), height=float(height), rx=1.5,
                 class_=f"f-{fill}" + (f" s-{stroke}" if stroke else ""), fill_opacity=opacity if opacity < 1 else None)

    def line(self, x1, y1, x2, y2, stroke, width=1.0, dash=None):
        self.add("line", x1=float(x1), y1=float(y1), x2=float(x2), y2=float(y2), class_=f"s-{stroke}", stroke_width=width,
                 stroke_dasharray=dash)

    def polyline(self, points, stroke, width=2.0, dash=None):
        self.add("polyline", points=" ".join(f"{x:.1f},{y:.1f}" for x, y in points), class_=f"s-{stroke} none",
                 stroke_width=width, stroke_dasharray=dash)

    def circle(self, x, y, radius, fill, hollow=False):
        self.add("circle", cx=float(x), cy=float(y), r=radius,
                 class_=f"f-page s-{fill}" if hollow else f"f-{fill}", stroke_width=1.5 if hollow else None)

    def text(self, x, y, text, fill="ink", size=12, anchor="start", bold=False):
        self.add("text", text, x=float(x), y=float(y), class_=f"f-{fill}", font_size=size,
                 text_anchor=None if anchor == "start" else anchor, font_weight="bold" if bold else None)

    def svg(self):
        def style(which):
            return " ".join(f".f-{name}{{fill:{pair[which]}}} .s-{name}{{stroke:{pair[which]}}}"
                            for name, pair in COLOURS.items())

        return "\n".join(
            [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" width="{self.width}" '
             f'height="{self.height}" role="img" font-family="system-ui, sans-serif">',
             f"<title>{html.escape(self.title)}</title>",
             f"<style>.none{{fill:none}} {style(0)} @media (prefers-color-scheme: dark) {{ {style(1)} }}</style>",
             f'<rect width="{self.width}" height="{self.height}" class="f-page"/>', *self.shapes, "</svg>", ""])
