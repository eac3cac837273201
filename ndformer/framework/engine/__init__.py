"""What mmengine lacks: strict configs, exact schedules, reports."""
