"""Digits that move over backgrounds: views whose shared factors are known.

digits_params     settings of the moving digits
motion            a square that moves on a canvas and bounces
grounds           generated backgrounds of ten classes
digit_images      digits and backgrounds: generated or read, packed, loaded
digit_scenes      a digit on a background, drawn as pixels
moving_digits     videos by their factors, and second views that share some of them
digit_networks    networks of images and of videos
digit_tasks       factors to predict from a frame: digit, background, position
digit_training    contrastive training on such views, and supervised training
digit_readouts    read-outs of digit, background and position from a frozen network
digit_rows        the study's tables
film_strips       the study's picture
"""
