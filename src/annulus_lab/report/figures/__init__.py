"""Figures and pictures.

compact            their SVG in fewer bytes
drawing            how figures look; tooltips
studies            rows of metrics files to figures: the main line and most studies
views, transfer, distillation, moving_digits    the same, of one study or several alike
gains              the comparison figure: gains over a base, with intervals
law                gains of harder negatives by how hard uniform ones are
catalogue          every figure's files, title, finding and drawing function; the place to add one
parts              figures of a part of any study
pictures           images with their neighbours and negatives
"""
