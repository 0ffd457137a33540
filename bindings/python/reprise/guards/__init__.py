"""What a callable reads besides its arguments: found by one walk, and watched."""
