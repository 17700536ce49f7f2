"""All runs of a study in parallel, here or on a cluster: `annulus sweep stages/STUDY`.

worker     takes one trial after the other, until none is left that nobody works at
stages     a study's stages as DVC knows them
study      which trials a study has
places     where workers run: submitit's local processes, or a Slurm array
watch      starts workers, tells what they finish, and starts others in the place of those that were killed
"""

from annulus.extras import require

require(__name__, "sweep", ["submitit", "dvc"])
