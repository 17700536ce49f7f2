"""Detection, segmentation and keypoints: annotated pictures, and what detections are worth.

annotated          pictures with boxes, masks and keypoints, and detections in them
"""

from annulus.extras import require

require(__name__, "detection", ["faster_coco_eval"])
