"""The laboratory beside the product: experiments of the papers, benchmarks, simulations, the demo and reports."""
