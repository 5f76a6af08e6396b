"""HTML pages about runs and audits. Each is one file that needs nothing else and loads nothing.

    run_page       the page of one run folder
    compare_page   the page that compares several run folders
    audit_page     the page of an audit
    gather         collects the parts of a run's page
    run_record     what a run folder says about its runs
    sentences      the sentences on top of a run's page
    curves         learning curves
    scores         tables of returns and scores
    weights        the weight of each offline episode
    clips          short clips of a policy and a demonstration
    charts         charts as SVG
    html           elements, tables and whole pages (with page.js and style.css)

Pages are well-formed XML too, so that any parser can check them. docs/report.md explains how to
read a report.
"""
