"""Digits that move over backgrounds: views of which one knows what they share.

digits_params     settings of the moving digits
motion            a square that moves on a canvas and bounces
grounds           generated backgrounds of ten classes
digit_images      digits and backgrounds: made or read, packed, loaded
digit_scenes      a digit on a background, drawn as pixels
moving_digits     videos by their factors, and second views that share some of them
digit_networks    the network of an image, and that of a video
digit_tasks       what is asked of a frame: digit, background, position
digit_training    contrastive training on such views, and supervised training
digit_readouts    what a frozen network tells of digit, background and position
digit_rows        the study's tables
film_strips       its picture
"""
