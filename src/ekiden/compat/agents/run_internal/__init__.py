"""Parts of the loop that tools of this SDK reach into."""
