"""From a face to the loop and back: options, the assembly, the loop's thread, the person."""
