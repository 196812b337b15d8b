-- works with: 5

-- Nothing is new in a file: both back ends have the same formats.
