"""Selectors of params.yaml, each with the section that holds its choices."""

SELECTOR_SECTIONS = {
    "scale": "scales",
    "dataset": "datasets",
    "method": "methods",
    "split": "splits",
    "bound": "bounds",
    "sampler": "samplers",
    "anneal": "anneals",
    "neighbours": "neighbour_sets",
    "views": "view_sets",
    "backbone": "backbones",
    "schedule": "schedules",
}
