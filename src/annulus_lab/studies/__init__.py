"""Studies, a folder each, and `shared`. Only stages, report, sweep, site and the commands import them.

A study has up to two folders:

    stages/STUDY/                    its DVC project
        params.yaml                  every setting
        dvc.yaml                     its stages
        settings.py                  writes one file of resolved settings for each other stage
        SCRIPT.py                    one script for each stage that no other study has
        metrics/, README.md          its results, and their meaning
    src/annulus_lab/studies/STUDY/   its code; a study of settings alone has none
        __init__.py                  lists the modules in the order of the data
        STUDY_params.py              dataclasses of the sections of params.yaml
        STUDY_study.py               params.yaml as a whole, if its sections depend on each other
        ...                          images, networks, training, and rows of the tables

Begin at stages/STUDY/README.md and params.yaml. Then read settings.py: `READERS` names the script of each stage, and a
script calls the study's modules in order. `spirals` is the smallest study with code of its own, and `estimators` reads
no images. A new kind of study is one such folder of each. A new study of an existing form (rows: `algorithms`, parts:
`law`) is only a params.yaml and a copy of that form's dvc.yaml. `shared/study.py` explains its keys.
"""
