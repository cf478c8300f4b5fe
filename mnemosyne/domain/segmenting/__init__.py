"""What segmentation knows of tools, shells, prose and earlier objects."""
