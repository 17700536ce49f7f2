"""All runs of a study in parallel, here or on a cluster: `annulus sweep STUDY`.

worker        takes trials until every trial has a worker
study_trials  lists a study's trials
places        executors of workers: submitit's local processes, or a Slurm array
watch         starts workers, reports finished trials, and replaces killed workers
"""

from annulus.errors import require

require(__name__, None, ["submitit", "dvc"])
