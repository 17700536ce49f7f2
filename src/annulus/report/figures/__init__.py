"""Figures and pictures.

compact            their SVG in fewer bytes
drawing            how figures look
studies            rows of metrics files to figures: the main line and most studies
views, transfer, distillation, moving_digits    the same, of one study or several alike
gains              the comparison figure: gains over a base, with intervals
law                gains of harder negatives by how hard uniform ones are
parts              figures of a part of any study
plots              every figure's files, title and finding
pictures           images with their neighbours and negatives
"""
