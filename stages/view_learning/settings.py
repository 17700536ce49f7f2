"""The parameters -> what the images, each generator, the views and the pictures read: a file for each."""

from typing import Any

from annulus.config.file import checked
from annulus.config.params import nearest
from annulus.config.resolved import IMAGES, RUN, resolved
from annulus.config.study import Study
from annulus.errors import InputError
from annulus.generators.params import SEEN, GeneratorParams
from annulus.pipeline.stage import write_settings


def main(study: Study) -> dict[str, Any]:
    own, names = study.params, list(study.content["generators"])
    common = {"scale": own.scale, "seeds": own.seeds}
    learned = {name: _params(study, name) for name in names}
    seen = resolved(study.variant("generators", {}, own.seeds[0]), SEEN)
    files = {"images": resolved(study.variant("images", {}, own.seeds[0]), IMAGES)}
    for name, params in learned.items():
        files[f"generators/{name}"] = common | {"generator": params.model_dump(mode="json"), "seen": seen}
    spaces = list(dict.fromkeys(params.space for params in learned.values()))
    points = []
    for backbone in study.row("backbones", own.scale):
        for space in spaces:
            run = resolved(study.variant(space, {"split": space, "backbone": backbone}, own.seeds[0]), RUN)
            about = {"table": "", "space": space, "backbone": backbone, "run": run}
            raw = {"learns": "raw input", "changes": "none", "volume_preserving": ""}
            points.append({"series": f"raw-{space}", "generator": None} | raw | about)
            for name, params in learned.items():
                if params.space == space:
                    told = params.model_dump(mode="json", include=set(raw))
                    points.append({"series": name, "generator": name} | told | about)
    smallest = next(iter(study.row("backbones", own.scale)))
    for point in points:
        plain = point["series"].removeprefix("raw-") in (point["space"], f"{point['learns']}-{point['space']}")
        if plain and point["backbone"] == smallest and point["learns"] != "nothing":
            point["table"] = "infomin.table2"
    views = common | {key: study.content[key] for key in ("held_out_pairs", "pairs")} | {"points": points}
    pictures = common | {"generators": names, "spaces": spaces, "shown": study.content["shown"]}
    return files | {"views": views, "pictures": pictures}


def _params(study: Study, name: str) -> GeneratorParams:
    """What all generators have, what the scale sets, the generator's rates, and what it says itself."""
    scale, own = study.params.scale, study.row("generators", name)
    rates = study.row("rates", scale)
    if own.get("rates") not in rates:
        where = f"{study.path}: generators.{name}.rates: {own.get('rates')!r}"
        raise InputError(f"{where} is none of {', '.join(rates)}{nearest(str(own.get('rates')), rates)}")
    tree = study.row("learning", "all") | study.row("learning", scale) | rates[own["rates"]] | own
    del tree["rates"]
    return checked(tree, f"{study.path}: generators.{name}", GeneratorParams)


if __name__ == "__main__":
    write_settings(main, Study)
