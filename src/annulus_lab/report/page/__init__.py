"""The report itself, as a page and as Markdown.

Its sections from top to bottom, by their ids in page.html, and the files that make them:

    own                 own_images: own images, their neighbours, map and curve, where the main line trained on some
    gain                first_screen: what the main line gains over uniform negatives
    states              state_table: every table, figure and theorem of the papers, what ran of it, and its state
    real, law           sections: gains of the algorithms on real images, and when a sampler gains; law_table: what
                        orders these gains
    claims              claim_numbers: the numbers of a claim and its rule in words (the claims: ../claims/PAPER.py)
    tables              comparison of papers: a paper's table with ours beside it
    comparison, long    sections: gains of the algorithms on generated images, and on all of CIFAR-10
    further             further_studies: parts of studies without a claim, table or figure; part_tables: their tables
    main                seed_tables: a mean over seeds with its interval, and each seed
    curves, diagnostics, figures    sections: a figure of ../figures/catalogue with its verdicts
    pictures            sections: the annulus, the map, grids of images; sheets: pictures that studies draw
    run                 context: what was run, and where
    broken              metrics of papers: files that cannot be right

What puts them together:

    content             every section, gathered from the files that exist
    html                one HTML file that asks for nothing else (page.html, page.css, page.js)
    markdown            the same for a pull request
"""
