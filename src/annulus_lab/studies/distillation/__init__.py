"""Distillation: a student learns from a teacher by contrast of their embeddings or by the teacher's softened answers.

distillation_params  sections of the study's params.yaml
distillation_study   the whole file, and the settings of each loss
classifiers          networks for small images, and their training
contrast             sampler and bound of the section `contrast`
labels               rows of a memory by class
memories             contrast of student and teacher with two memories
objective            the loss of a student
distillation_runs    one run for each seed
distillation_tables  gains of students over others
correlation          correlations of class scores, student beside teacher
"""
