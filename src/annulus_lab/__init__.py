"""The laboratory: five papers, measured with the library `annulus`.

Rooms in the order in which data flows through them; each imports only from the library and from those above it:

    config         params.yaml, read into the library's settings
    pipeline       stages, provenance, MLflow
    compare        two variants of the main line, number by number
    studies        a folder for each study, and their shared code
    report         all results as one page, beside the papers
    sweep          all runs of a study in parallel, here or on a cluster
    site           the documentation site (`make docs`)
    look           `annulus look` with the views and sizes of params.yaml
    export         `annulus export` with the main line's numbers on the model card
    commands       the laboratory's commands of `annulus`
"""
