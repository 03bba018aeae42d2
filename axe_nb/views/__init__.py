"""Views of runs: trees, plain text, HTML, comparisons and exports. All are free of side effects."""
