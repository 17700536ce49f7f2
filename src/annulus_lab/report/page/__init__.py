"""The report, as a page and as Markdown.

The sections from top to bottom, by their ids in page.html, and the files that make them:

    own                 own_images: own images, their neighbours, map and curve, if the main line trained on some
    gain                first_screen: gain of the main line over uniform negatives
    states              state_table: every table, figure and theorem of the papers, its rows that ran, and its state
    real, law           sections: gains of the algorithms on real images, and conditions of a sampler's gain;
                        law_table: correlations of these gains with weight and temperature
    claims              claim_numbers: the numbers of a claim and its rule in words (the claims: ../claims/PAPER.py)
    tables              comparison of papers: a paper's table with ours beside it
    comparison, long    sections: gains of the algorithms on generated images, and on all of CIFAR-10
    further             further_studies: parts of studies without a claim, table or figure; part_tables: their tables
    main                seed_tables: a mean over seeds with its interval, and each seed
    curves, diagnostics, figures    sections: a figure of ../figures/catalogue with its verdicts
    pictures            sections: the annulus, the map, grids of images; sheets: pictures that studies draw
    run                 context: commit, parameters, stages and machines
    broken              metrics of papers: damaged files

The files that join them:

    content             every section, gathered from the files that exist
    html                one HTML file without external resources (page.html, page.css, page.js)
    markdown            the same report for a pull request
"""
