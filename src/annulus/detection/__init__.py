"""Detection, segmentation and keypoints: annotated pictures, and what detections in them are worth.

annotated          pictures with boxes, masks and keypoints, and detections in them
records            annotation files in JSON, checked
image_files        whether the images are there, and as large as annotated
coco, lvis, voc    the three formats
splits             training and test pictures, from the folders of a data set
eleven_points      average precision as VOC 2007 defines it
average_precision  average precision of boxes, masks and keypoints
bootstrap          its 95 % intervals, over seeds and pictures
scenes_params      settings of generated scenes
figures            drawn persons
scenes             several objects or persons in a picture, and what is seen of each
federation         what LVIS would know of a scene
polygons           masks as boxes and polygons
layouts            scenes in the formats and folders of COCO, VOC and LVIS
pictures           the truth beside what was detected
"""

from annulus.extras import require

require(__name__, "detection", ["faster_coco_eval", "PIL", "pydantic"])
