"""The tools that come with axe_nb, one module per design; none of them knows the loop."""
