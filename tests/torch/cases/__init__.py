"""What users rely on in PyTorch's CUDA caching allocator, as tests; see ../test_allocator.py."""
