"""nuScenes' names: the ten detection classes, the categories they consist of, attributes and channels."""

# in the order of OpenPCDet, UniTR and mmdet3d, for their weights
CLASSES = [
    "car", "truck", "construction_vehicle", "bus", "trailer", "barrier", "motorcycle", "bicycle", "pedestrian",
    "traffic_cone",
]  # fmt: skip
CATEGORIES = {  # other categories are not evaluated
    "movable_object.barrier": "barrier",
    "movable_object.trafficcone": "traffic_cone",
    "vehicle.bicycle": "bicycle",
    "vehicle.bus.bendy": "bus",
    "vehicle.bus.rigid": "bus",
    "vehicle.car": "car",
    "vehicle.construction": "construction_vehicle",
    "vehicle.motorcycle": "motorcycle",
    "vehicle.trailer": "trailer",
    "vehicle.truck": "truck",
    "human.pedestrian.adult": "pedestrian",
    "human.pedestrian.child": "pedestrian",
    "human.pedestrian.construction_worker": "pedestrian",
    "human.pedestrian.police_officer": "pedestrian",
}
RACK = "static_object.bicycle_rack"
ATTRIBUTES = [
    "cycle.with_rider", "cycle.without_rider", "pedestrian.moving", "pedestrian.sitting_lying_down",
    "pedestrian.standing", "vehicle.moving", "vehicle.parked", "vehicle.stopped",
]  # fmt: skip
LIDAR = "LIDAR_TOP"
CAMERAS = ["CAM_FRONT", "CAM_FRONT_RIGHT", "CAM_FRONT_LEFT", "CAM_BACK", "CAM_BACK_LEFT", "CAM_BACK_RIGHT"]

FAST = 0.2  # meters per second above which an object is moving
MOVING = dict.fromkeys(("car", "truck", "construction_vehicle", "bus", "trailer"), "vehicle.moving")
MOVING |= dict(motorcycle="cycle.with_rider", bicycle="cycle.with_rider", pedestrian="pedestrian.moving")
RESTING = dict.fromkeys(MOVING, "vehicle.parked")  # most common attribute of objects at rest in the training set
RESTING |= dict(bus="vehicle.stopped", motorcycle="cycle.without_rider", bicycle="cycle.without_rider")
RESTING["pedestrian"] = "pedestrian.standing"
