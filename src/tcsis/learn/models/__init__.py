"""Networks with their skip terms and symmetries: what a sampler asks for is a denoiser."""
