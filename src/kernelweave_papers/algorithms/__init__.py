"""Published algorithms that are slower than those of the library, which finds them by name as entry points.

`cutting_plane` is SILP, `reduced_gradient` SimpleMKL, and `alternating` Algorithm 1 of RLS2.
"""
