"""The figure of transfer: gains of a ring's encoders on each target."""

from matplotlib.figure import Figure

from annulus_lab.report.figures.drawing import INK, finish, group_by, looks, numbers, optional, panels, plain
from annulus_lab.report.figures.studies import Rows

PROTOCOLS = {"linear": "linear probe", "few_shot": "few-shot episodes"}


def transfer(rows: Rows) -> Figure:
    """Draws a panel for each protocol, a line for each target: the ring's gains over each other variant.

    Only the table has the gains of further encoders over their own bases.
    """
    figure, axes = panels(*PROTOCOLS.values())
    groups = {name: group for name, group in group_by(rows, "over").items() if ", by " not in name}
    targets = list(group_by(rows, "target"))
    for panel, protocol in zip(axes, PROTOCOLS, strict=True):
        for shift, (name, look) in enumerate(looks(groups).items()):
            gains = numbers(groups[name], f"{protocol}_gain_percent")
            halves = [optional(row, f"{protocol}_gain_interval_percent") or 0.0 for row in groups[name]]
            places = [-targets.index(str(row["target"])) - 0.2 * shift for row in groups[name]]
            look = look | {"linestyle": "", "label": f"over {plain(name)}"}
            panel.errorbar(gains, places, xerr=halves, capsize=2, **look)
        panel.axvline(0, color=INK, linewidth=0.8)
        panel.set_yticks([-place for place in range(len(targets))], [plain(target) for target in targets])
        finish(panel, "gain, percentage points", "target")
    return figure
