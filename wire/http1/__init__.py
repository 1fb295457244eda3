"""HTTP/1.1 as bytes: requests are read and answers written, without I/O."""
