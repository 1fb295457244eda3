"""What is published, in stores that nodes read where no coordinator answers."""
