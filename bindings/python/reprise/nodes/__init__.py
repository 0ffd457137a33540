"""A region's forward pass and its backward pass as two tapes, and one autograd node.

A recorded call runs with autograd's own graph, whose nodes save tensors. The tape of the
forward pass returns these tensors, and the tape of the backward pass takes them. The
backward tape computes what autograd's engine computes for that graph. It gives each
contribution to a gradient separately, in the engine's order, and the engine adds them. If
no tape fits (gradients of another form, `create_graph`), the graph is made anew from the
saved tensors, and computes the gradients.
"""
