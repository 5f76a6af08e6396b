"""HTML pages about runs, sweeps and audits. Each is one file that loads nothing else.

    run_page       the page of one run folder
    compare_page   the page that compares several run folders
    sweep_page     the page of a sweep
    audit_page     the page of an audit
    gather         collects the parts of a run's page
    run_record     what a run folder says about its runs
    sentences      the sentences on top of a run's page
    curves         learning curves
    scores         tables of returns and scores
    weights        the weight of each offline episode
    rewards        the reward of each offline episode
    rehearsal      rehearsed episodes beside the demonstrations
    clips          short clips of a policy and a demonstration
    charts         charts as SVG
    html           elements, tables and whole pages (with page.js and style.css)

Pages are well-formed XML too, so that any parser can check them. docs/report.md explains how to
read a report.
"""
