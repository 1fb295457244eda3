"""Active sections as files: generations of folders, swapped by one link, with the rights that access gives."""
