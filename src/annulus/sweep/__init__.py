"""All runs of a study in parallel, here or on a cluster: `annulus sweep stages/STUDY`.

worker     takes trials until none is left without a worker
stages     a study's stages as DVC knows them
study      lists a study's trials
places     executors of workers: submitit's local processes, or a Slurm array
watch      starts workers, reports finished trials, and replaces killed workers
"""

from annulus.errors import require

require(__name__, "sweep", ["submitit", "dvc"])
