"""The pages in a real browser: Chromium from the system's packages, driven by Playwright."""
