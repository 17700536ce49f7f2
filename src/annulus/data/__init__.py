"""Image sets: generated, from folders, or downloaded; all become uint8 images with labels and row numbers.

Only what every stage needs is imported here, so that a change to how one set is read reruns `prepare` alone as long
as its images stay the same; `prepare` imports annulus.data.prepare.
"""

from annulus.data.images import ImageSet, load_images, save_images

__all__ = ["ImageSet", "load_images", "save_images"]
