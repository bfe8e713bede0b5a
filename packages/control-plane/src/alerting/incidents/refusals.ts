import { AppError } from "@statusmesh/shared/errors";

export const incidentNotFound = (): AppError => new AppError("INCIDENT_NOT_FOUND", "Incident not found.");
