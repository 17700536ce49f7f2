"""Studies, a folder each, and their shared code. Only stages, report, sweep, site and the commands import them.

A study has up to two folders:

    stages/STUDY/                    its DVC project
        params.yaml                  every setting
        dvc.yaml                     its stages
        settings.py                  writes one file of resolved settings for each other stage
        SCRIPT.py                    one script for each stage that no other study has
        metrics/, README.md          its results, and what they show
    src/annulus_lab/studies/STUDY/   its code; a study of settings alone has none
        __init__.py                  lists the modules in the order of the data
        STUDY_params.py              dataclasses of the sections of params.yaml
        STUDY_study.py               params.yaml as a whole, if its sections depend on each other
        ...                          images, networks, training, and rows of the tables

Begin at stages/STUDY/README.md and params.yaml. Then read settings.py: `READERS` names the script of each stage, and a
script calls the study's modules in order. `spirals` is the smallest study with code of its own, and `estimators` reads
no images. A new kind of study is one such folder of each. A new study of an existing form (rows: `algorithms`, parts:
`law`) is only a params.yaml and a copy of that form's dvc.yaml; `study` explains its keys.

Shared modules:

    study           a study's own params.yaml over the root's
    settings_files  its resolved settings as files, which its other stages depend on
    rows_params     parameters of rows beside the papers' tables
    grid            parameters of parts: series at each value of a swept setting
    runs            training runs of one stage, several at a time
    measured        results of a run
    store           results by the key of all their inputs
    outcomes        results over seeds and as rows of tables
    information     shared information of two views, estimated with a run's encoder
    closeness       weight of the closest rows in the softmax of a run's encoder
    segments        segmentation of frozen features
    papers          a table of runs beside the papers' numbers
"""
