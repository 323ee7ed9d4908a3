"""Medical images: readers, orientation, windows, slice sampling, crops, PNG, projection. Knows no data set."""
