"""Detection, segmentation and keypoints: annotated pictures, detectors on frozen encoders, average precision.

annotated          pictures with boxes, masks and keypoints, and detections in them
records, objects, segmentations, faults
                   annotation files in JSON, checked
image_files        checks of the images' existence and sizes
coco, lvis, voc    the three formats
splits             training and test pictures, from the folders of a data set
eleven_points      average precision as VOC 2007 defines it
average_precision  average precision of boxes, masks and keypoints
bootstrap          its 95 % intervals, over seeds and pictures
scenes_params      settings of generated scenes
figures            drawn persons
scenes             several objects or persons in a picture, with their visible parts
federation         incomplete annotations as in LVIS
polygons           masks as boxes and polygons
layouts            scenes in the formats and folders of COCO, VOC and LVIS
detection_grid     the truth beside the detections
levels             an encoder's maps of growing stride
detection_params, tasks
                   settings of detectors, training and tasks; known engines
detection_study    the study's params.yaml as a whole
samples            pictures as a detector's input, and their order
roi_align          features of a map in boxes
heads, detector    torchvision's detection modules around the levels
fitting            the training loop of both engines
torchvision_engine, detectron2_engine, detectron2_config
                   detectors of the two libraries, trained and applied
detector_runs      detectors around each encoder, trained by the chosen engine and evaluated
detected           average precision by variant
detection_tables   rows of tasks and variants
further_encoders   the list of further encoders in params.yaml
further            their numbers and rows
semantic           segmentation decoders on an encoder's maps
"""

from annulus.errors import require

require(__name__, None, ["faster_coco_eval", "PIL", "pydantic"])
