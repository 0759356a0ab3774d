"""The live page: from dirty signals to the finished HTML that each browser is sent."""
