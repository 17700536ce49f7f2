"""Figures and pictures.

compact            SVG in fewer bytes
drawing            style of the figures; tooltips
studies            rows of metrics files to figures: the main line and most studies
views, transfer, distillation, moving_digits    rows to figures: one study or several similar ones
gains              the comparison figure: gains over a base, with intervals
law                gains of harder negatives over a weight
catalogue          every figure's files, title, finding and drawing function; add a figure here
parts              figures of a part of any study
pictures           images with their neighbours and negatives
"""
