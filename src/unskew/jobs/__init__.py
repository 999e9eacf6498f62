"""Jobs without code: from options or a TOML file to a balanced query that runs, with live bars."""

from unskew.jobs.job import Job
from unskew.jobs.settings import job_from, read_job_file

__all__ = ["Job", "job_from", "read_job_file"]
