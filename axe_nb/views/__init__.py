"""Views of runs: trees, plain text, HTML, comparisons and exports."""
